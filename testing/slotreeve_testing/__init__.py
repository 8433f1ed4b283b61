"""What tests of slotreeve and of its plugins are made with; shipped, so that third parties can use it."""

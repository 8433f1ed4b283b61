"""What clients publish and read, on its way to and from the slot leaders."""

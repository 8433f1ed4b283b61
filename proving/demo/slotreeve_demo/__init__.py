"""The demonstration: the main job on real names, with servers killed while it goes on."""

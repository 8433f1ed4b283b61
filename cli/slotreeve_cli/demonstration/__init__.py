"""The main job on real input: real names, real processes, real kills, and checks of what came of it."""

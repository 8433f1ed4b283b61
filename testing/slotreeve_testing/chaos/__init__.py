"""Faults on real processes, sockets and disks, with histories that a checker judges afterwards."""

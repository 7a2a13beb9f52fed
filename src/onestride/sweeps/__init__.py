"""Sweeps: many problems, theory beside simulation, in a store that cannot lose work."""

"""Measurements. Imports nothing from `onestride.theory`."""

"""Predictions. Imports nothing from `onestride.simulation`."""

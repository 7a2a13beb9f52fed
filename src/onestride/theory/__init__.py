"""Predictions. Imports nothing from `onestride.simulate`."""

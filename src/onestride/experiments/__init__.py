"""Named experiments: settings, data, verdict, figure."""

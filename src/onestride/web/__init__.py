"""The explorer: a local page that draws theory while a slider moves and simulates in the background."""

"""Streams as events: captured, kept in memory or in files, replayed, taken out at the end."""

"""The Scribe: what takes rows in, makes them durable, publishes them and keeps the tables in shape."""

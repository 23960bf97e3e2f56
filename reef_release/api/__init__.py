"""The service over HTTP: commands that append events, and views of the state they imply."""

"""The web server: a page for people and an API for programs, on this computer. Needs the extra `serve`."""

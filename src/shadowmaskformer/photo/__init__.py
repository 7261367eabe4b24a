"""Picture files to `Photo` and back, with everything a file says about itself."""

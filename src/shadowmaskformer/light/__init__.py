"""How light changes: corrections, and the floor that measures them without learning."""

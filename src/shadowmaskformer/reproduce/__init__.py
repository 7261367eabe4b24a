"""The paper's experiments, from training to table and figure."""

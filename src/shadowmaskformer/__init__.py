"""Remove cast shadows from photographs."""

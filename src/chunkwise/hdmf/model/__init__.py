"""Storage model: nodes, elements, values, references and stored arrays."""

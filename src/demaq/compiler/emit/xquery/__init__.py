"""A plan to XQuery 3.1 that Saxon HE compiles: function items for rules, properties and indexes."""

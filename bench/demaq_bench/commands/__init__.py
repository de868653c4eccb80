"""`demaq bench` and `demaq demo`: commands that a clone has, and an installed package has not."""

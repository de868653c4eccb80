"""Static analyses of an application, used by the checks and by other packages."""

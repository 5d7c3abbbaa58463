"""Races in a module's forward: found by trying the orders in which threads can meet in it."""

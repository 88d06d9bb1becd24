"""Steps of the action (`action.yml`) that a shell would write badly; `reference` writes the
reference pages of docs."""

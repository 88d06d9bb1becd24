"""The steps of the composite action (`action.yml`) that a shell would write badly: each module is one step."""

"""A finished study in the forms of other tools (docs/how-to/export.md)."""

EXPORTERS = {
    "inspect": "inspect_exporter:InspectExporter",
    "hf": "hub_exporter:HubExporter",
}

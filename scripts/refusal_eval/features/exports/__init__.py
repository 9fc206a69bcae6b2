"""A finished study in the forms of other tools (docs/how-to/export.md)."""

EXPORTERS = {
    "inspect": "inspect_exporter:InspectExporter",
    "inspect_json": "inspect_exporter:InspectJsonExporter",
    "hf": "hub_exporter:HubExporter",
}

"""Transforms: changes of the prompts that a model is asked, such as a defence behind each of them."""

MODEL_KEYS = {"transform": "transform_keys:TransformKeys"}
CHANGES = {"transform": "transform_change:TransformChange"}
TRANSFORMS = {
    "append": "append_transform:AppendTransform",
    "system": "system_transform:SystemTransform",
    "written": "written_transform:WrittenTransform",
}
RULES = ["transforms"]
FILES = {"transformed": "transform_files:TRANSFORMED"}
CHECKS = {"transforms": "transform_mistakes:transform_mistakes"}
ANALYSES = {"transforms": "transforms_analysis:TransformsAnalysis"}
TABLES = {"transforms": "transforms_table:TransformsTable"}

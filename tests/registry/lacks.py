"""What the registries under test lack: the tests that a registry cannot pass, and why."""

from __future__ import annotations

_HIDES_NOTHING = "it deletes at once: there is no soft deletion"
_PARSES_NOTHING = "it parses no schemas, and follows no references"

MOCK = {
    "test_a_schema_has_the_same_id_under_all_subjects": "each subject has its own ids",
    "test_white_space_does_not_make_a_new_version": _PARSES_NOTHING,
    "test_a_text_that_is_no_schema_is_refused": _PARSES_NOTHING,
    "test_a_reference_must_exist": _PARSES_NOTHING,
    "test_a_referenced_version_cannot_be_deleted": _PARSES_NOTHING,
    "test_normalized_schemas_that_differ_in_form_are_one_version": _PARSES_NOTHING,
    "test_a_deleted_schema_that_is_registered_again_has_its_id_and_a_new_version": _HIDES_NOTHING,
    "test_a_deleted_subject_is_hidden": _HIDES_NOTHING,
    "test_a_permanently_deleted_subject_starts_again": _HIDES_NOTHING,
    "test_a_version_is_deleted_permanently": _HIDES_NOTHING,
    "test_a_context_has_its_own_ids": "it knows no contexts",
    "test_deletion_of_what_does_not_exist_is_an_error": "it does not mind",
}

APICURIO = {
    "test_white_space_does_not_make_a_new_version": "it compares texts as they are, unless they are normalized",
    "test_a_subject_without_a_level_has_the_global_one": "it reports NONE, although the global level holds",
    "test_a_subject_without_checks_overrides_the_global_level": "NONE of a subject is the same as the global level",
    "test_a_level_is_set_before_the_first_version": "it sets NONE only for a subject that exists",
    "test_a_change_is_judged_in_both_directions[an-alias-is-ambiguous]": "it calls the schema invalid",
    "test_a_context_has_its_own_ids": "contexts are a part of the name of a subject, and share the ids",
}

LACKS: dict[str, dict[str, str]] = {"embedded": {}, "mock": MOCK, "apicurio": APICURIO}

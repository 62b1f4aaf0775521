"""What lint found as text, JSON and SARIF: worst first, with lines and reasons, under any names."""

import json
import re
from dataclasses import replace

import pytest
from hostile import NAMES
from made_up_findings import report

from wavesim.lint.finding import Finding
from wavesim.lint.report import LintReport, counts_text, findings_document, findings_text
from wavesim.lint.report_sarif import SCHEMA, sarif_log
from wavesim.lint.rules import RULES

URI = re.compile(r"(file:///)?[A-Za-z0-9\-._~/%]+")


def test_the_kernel_with_something_wrong_comes_first_and_in_it_the_worst():
    kernels = report().kernels
    assert [(part.kernel, part.verdict) for part in kernels] == [("consumer", "wrong"), ("producer", "right")]
    assert [finding.verdict for finding in kernels[0].findings] == ["wrong", "unknown", "right"]


def test_the_headline_counts_every_verdict_and_names_no_other():
    assert report().headline == "1 wrong, 1 unknown and 2 right in pair.ptx"
    assert counts_text(report().findings[:1]) == "1 right"
    assert counts_text(()) == "nothing found"


def test_a_line_is_one_of_the_file_where_the_instruction_is_in_it_or_comes_from_it():
    made = report()
    poll = made.findings[2].instruction
    assert made.line_of(poll) == poll.listing_line == 21
    assert replace(made, file="src/pair.cu").line_of(poll) == poll.source.line == 13


def test_the_text_quotes_what_is_wrong_with_its_loads_its_reason_and_its_fix():
    text = findings_text(report())
    wrong = text[text.index("WRONG") : text.index("unknown  spin")]
    assert "21 | ld.relaxed.gpu.global.u32 %r2, [%rd4];  // pair.cu:13" in wrong
    assert "30 | ld.global.v4.f32 {%f7, %f8, %f9, %f10}, [%rd6+512];" in wrong
    assert "because the flag is polled relaxed" in wrong
    assert "fix: Poll with ld.acquire.gpu" in wrong
    assert text.index("consumer") < text.index("producer")
    assert "function f was not found" in text


def test_a_finding_with_many_instructions_quotes_some_and_counts_the_rest():
    made = report()
    long = replace(made.findings[2], others=made.listings[0].kernels[1].instructions[8:19])
    assert "... and 6 more" in findings_text(replace(made, findings=[long]))


def test_json_has_the_agreed_fields_and_every_finding():
    document = findings_document(report())
    assert list(document)[:2] == ["findings", "seconds"]
    assert len(document["findings"]) == 4
    for entry in document["findings"]:
        assert list(entry)[:5] == ["kernel", "kind", "verdict", "why", "line"]
    assert document["findings"][0]["line"] == 21
    assert document["counts"] == {"wrong": 1, "unknown": 1, "warn": 0, "right": 2}
    json.dumps(document)


def results(log: dict) -> list:
    return log["runs"][0]["results"]


# The objects of SARIF 2.1.0 that we write: what the schema requires of each, what else of its properties we
# use, and which objects those hold. The schema allows no others, but for what is in a property bag.
OBJECTS = {
    "sarifLog": ("version runs", "$schema", {"runs": "run"}),
    "run": (
        "tool",
        "columnKind artifacts invocations results properties",
        {"tool": "tool", "artifacts": "artifact", "invocations": "invocation", "results": "result"},
    ),
    "tool": ("driver", "", {"driver": "toolComponent"}),
    "toolComponent": ("name", "semanticVersion rules", {"rules": "reportingDescriptor"}),
    "reportingDescriptor": (
        "id",
        "name shortDescription fullDescription help defaultConfiguration properties",
        {
            "shortDescription": "multiformatMessageString",
            "fullDescription": "multiformatMessageString",
            "help": "multiformatMessageString",
            "defaultConfiguration": "reportingConfiguration",
        },
    ),
    "multiformatMessageString": ("text", "markdown", {}),
    "reportingConfiguration": ("", "level", {}),
    "artifact": ("", "location", {"location": "artifactLocation"}),
    "artifactLocation": ("", "uri", {}),
    "invocation": (
        "executionSuccessful",
        "toolExecutionNotifications",
        {"toolExecutionNotifications": "notification"},
    ),
    "notification": ("message", "level", {"message": "message"}),
    "message": ("text", "", {}),
    "result": (
        "message",
        "ruleId ruleIndex kind level locations relatedLocations partialFingerprints properties",
        {"message": "message", "locations": "location", "relatedLocations": "location"},
    ),
    "location": (
        "",
        "id physicalLocation logicalLocations message",
        {"physicalLocation": "physicalLocation", "logicalLocations": "logicalLocation", "message": "message"},
    ),
    "physicalLocation": (
        "artifactLocation",
        "region",
        {"artifactLocation": "artifactLocation", "region": "region"},
    ),
    "region": ("", "startLine snippet", {"snippet": "artifactContent"}),
    "artifactContent": ("", "text", {}),
    "logicalLocation": ("", "name kind", {}),
}


def require_object(kind: str, value: object) -> None:
    """That it and the objects in it have the properties that the schema requires, and no unknown one."""
    if isinstance(value, list):
        for entry in value:
            require_object(kind, entry)
        return
    required, optional, held = OBJECTS[kind]
    assert isinstance(value, dict), kind
    assert set(required.split()) <= set(value) <= {*required.split(), *optional.split()}, kind
    for name in value.keys() & held.keys():
        require_object(held[name], value[name])


def test_the_check_of_sarif_refuses_what_is_missing_and_what_the_schema_does_not_have():
    missing, misspelt = sarif_log(report()), sarif_log(report())
    del missing["runs"][0]["results"][0]["message"]
    misspelt["runs"][0]["results"][0]["locations"][0]["region"] = {}
    for log in (missing, misspelt):
        with pytest.raises(AssertionError):
            require_object("sarifLog", log)


def require_valid(log: dict) -> None:
    """What the schema of SARIF 2.1.0 requires of the objects that we write, and GitHub besides."""
    require_object("sarifLog", log)
    assert log["version"] == "2.1.0"
    assert log["$schema"] == SCHEMA
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"]
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(set(ids)) == len(ids)
    for rule in driver["rules"]:
        assert all(rule[key]["text"] for key in ("shortDescription", "fullDescription", "help"))
        assert rule["defaultConfiguration"]["level"] in ("none", "note", "warning", "error")
    for invocation in run["invocations"]:
        assert isinstance(invocation["executionSuccessful"], bool)
        assert all(note["message"]["text"] for note in invocation["toolExecutionNotifications"])
    for result in run["results"]:
        assert ids[result["ruleIndex"]] == result["ruleId"]
        assert result["message"]["text"]
        assert result["kind"] in ("pass", "fail", "open", "informational", "notApplicable", "review")
        assert result["kind"] == "fail" or result["level"] == "none"  # section 3.27.10
        assert len(result["locations"]) == 1
        for place in (*result["locations"], *result["relatedLocations"]):
            physical = place["physicalLocation"]
            assert URI.fullmatch(physical["artifactLocation"]["uri"])
            assert physical["region"]["startLine"] >= 1
            assert place["logicalLocations"][0]["name"]
        numbers = [place["id"] for place in result["relatedLocations"]]
        assert numbers == list(range(1, len(numbers) + 1))
        assert all(place["message"]["text"] for place in result["relatedLocations"])
        assert all(isinstance(value, str) for value in result["partialFingerprints"].values())


def test_sarif_holds_what_is_wrong_or_unknown_with_rules_and_places():
    log = sarif_log(report())
    require_valid(log)
    wrong, unknown = results(log)
    assert (wrong["ruleId"], wrong["kind"], wrong["level"]) == ("no-acquire", "fail", "error")
    assert (unknown["kind"], unknown["level"]) == ("open", "none")
    place = wrong["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("pair.cu", 13)
    assert [entry["physicalLocation"]["region"]["startLine"] for entry in wrong["relatedLocations"]] == [
        16,
        18,
    ]
    (rule, _) = log["runs"][0]["tool"]["driver"]["rules"]
    assert RULES["no-acquire"].fix in rule["help"]["text"]
    assert log["runs"][0]["properties"] == {"wrong": 1, "unknown": 1, "warn": 0, "right": 2}


def test_sarif_without_source_lines_points_into_the_listing():
    place = results(sarif_log(report(source=False)))[0]["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("pair.ptx", 21)


def test_a_fingerprint_stays_where_lines_are_added_above_and_changes_with_the_instruction():
    made = report()
    wrong = made.findings[2]

    def fingerprint(**changes: object) -> str:
        moved = replace(wrong, instruction=replace(wrong.instruction, **changes))
        return results(sarif_log(replace(made, findings=[moved])))[0]["partialFingerprints"]

    assert fingerprint(listing_line=99) == fingerprint()
    assert fingerprint(text="ld.volatile.global.u32 %r2, [%rd4];") != fingerprint()


@pytest.mark.parametrize("start", range(0, len(NAMES), 40))
def test_no_name_breaks_a_report_or_moves_the_cursor(start):
    names = NAMES[start:] + NAMES[:start]
    rest = iter(names * 3)
    hostile = report(lambda: next(rest))
    text = findings_text(hostile)
    assert all(line.isprintable() for line in text.split("\n"))
    require_valid(sarif_log(hostile))
    for document in (findings_document(hostile), sarif_log(hostile)):
        json.loads(json.dumps(document))


def test_a_kernel_in_which_nothing_was_found_is_told_in_every_report():
    made = report()
    nothing = Finding("fill", "kernel", "", "unknown", "no wait or post was found", where="pair.ptx")
    made = replace(made, findings=[nothing])
    assert "unknown  kernel: nothing to judge" in findings_text(made)
    require_valid(sarif_log(made))
    assert results(sarif_log(made))[0]["ruleId"] == "unjudged-kernel"
    assert findings_document(made)["findings"][0]["line"] is None


def test_a_file_in_which_nothing_was_found_is_reported_as_that():
    nothing = LintReport("a.ptx", (), (), 0.0)
    assert findings_text(nothing).startswith("nothing found in a.ptx: 0 kernels")
    assert results(sarif_log(nothing)) == []
    assert not nothing.is_wrong

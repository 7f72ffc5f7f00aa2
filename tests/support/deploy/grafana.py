"""The provisioning files that Grafana reads, field by field; it ignores what it does not know, these do not.

After Grafana's own types in pkg/services/provisioning (12.x).
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _File(_Strict):
    apiVersion: Literal[1]  # noqa: N815 - as in the file


class _ExemplarDestination(_Strict):
    name: str
    url: str
    urlDisplayLabel: str  # noqa: N815


class _SourceSettings(_Strict):
    httpMethod: Literal["GET", "POST"] = "POST"  # noqa: N815
    timeInterval: str = ""  # noqa: N815
    manageAlerts: bool = True  # noqa: N815
    exemplarTraceIdDestinations: list[_ExemplarDestination] = []  # noqa: N815
    implementation: Literal["prometheus", "mimir", "cortex"] = "prometheus"
    handleGrafanaManagedAlerts: bool = False  # noqa: N815


class _DataSource(_Strict):
    name: str
    uid: str = Field(max_length=40)
    type: Literal["prometheus", "alertmanager"]
    access: Literal["proxy"]
    url: str
    isDefault: bool = False  # noqa: N815
    jsonData: _SourceSettings  # noqa: N815


class DataSourceFile(_File):
    datasources: list[_DataSource]


class _ProviderOptions(_Strict):
    path: str


class _Provider(_Strict):
    name: str
    folder: str
    type: Literal["file"]
    allowUiUpdates: bool  # noqa: N815
    disableDeletion: bool  # noqa: N815
    options: _ProviderOptions


class DashboardFile(_File):
    providers: list[_Provider]


class _TimeRange(_Strict):
    from_: int = Field(alias="from")
    to: int


class _Query(_Strict):
    refId: str  # noqa: N815
    datasourceUid: str  # noqa: N815
    relativeTimeRange: _TimeRange  # noqa: N815
    model: dict[str, Any]


class _Rule(_Strict):
    uid: str = Field(max_length=40, pattern=r"^[a-zA-Z0-9_-]+$")
    title: str = Field(min_length=1, max_length=190)
    condition: str
    data: list[_Query] = Field(min_length=1)
    for_: str = Field(alias="for", pattern=r"^\d+[smhd]$")
    keepFiringFor: str = Field(pattern=r"^\d+[smhd]$")  # noqa: N815
    noDataState: Literal["Alerting", "NoData", "OK"]  # noqa: N815
    missing_series_evals_to_resolve: int = Field(ge=0)
    execErrState: Literal["OK", "Alerting", "Error"]  # noqa: N815
    labels: dict[str, str]
    annotations: dict[str, str]


class _Group(_Strict):
    orgId: int  # noqa: N815
    name: str
    folder: str
    # Grafana evaluates every 10 s at most, and in multiples of that.
    interval: str = Field(pattern=r"^(\d*0s|\d+[mh])$")
    rules: list[_Rule]


class RuleFile(_File):
    groups: list[_Group]


class _WebhookSettings(_Strict):
    url: str
    httpMethod: Literal["POST", "PUT"]  # noqa: N815


class _Receiver(_Strict):
    uid: str
    type: Literal["webhook"]
    settings: _WebhookSettings
    disableResolveMessage: bool  # noqa: N815


class _ContactPoint(_Strict):
    orgId: int  # noqa: N815
    name: str
    receivers: list[_Receiver]


class _Route(_Strict):
    receiver: str
    object_matchers: list[tuple[str, Literal["=", "!=", "=~", "!~"], str]]
    repeat_interval: str


class _Policy(_Strict):
    orgId: int  # noqa: N815
    receiver: str
    group_by: list[str]
    group_wait: str
    group_interval: str
    repeat_interval: str
    routes: list[_Route]


class ContactFile(_File):
    contactPoints: list[_ContactPoint]  # noqa: N815
    policies: list[_Policy]

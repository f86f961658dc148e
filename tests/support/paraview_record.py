# SPDX-License-Identifier: Apache-2.0
"""A record of `paraview.simple`: the names of ParaView 5.12 that scripts here may use, and nothing behind them.

The lists below were taken from ParaView's documentation of `paraview.simple`, from the definitions of its proxies, and
from state files that ParaView 5.12 wrote. A function or property that is not in them raises AttributeError, as ParaView
does; readers open their file with VTK's own, so that an array that is not in it is an error, too. What the record
cannot show is the picture: the scripts were not run in ParaView itself.
"""

from pathlib import Path
from types import ModuleType
from typing import Any

from vtkmodules.vtkIOHDF import vtkHDFReader
from vtkmodules.vtkIOXML import vtkXMLPolyDataReader

PROPERTIES = {
    "RenderView": {
        "CameraParallelProjection",
        "CameraFocalPoint",
        "CenterOfRotation",
        "CameraPosition",
        "CameraViewUp",
        "CameraParallelScale",
        "CameraViewAngle",
        "OrientationAxesVisibility",
        "ViewSize",
        "Background",
        "UseColorPaletteForBackground",
        "AxesGrid",
        "InteractionMode",
    },
    "Representation": {
        "Representation",
        "ColorArrayName",
        "LookupTable",
        "Opacity",
        "DiffuseColor",
        "AmbientColor",
        "LineWidth",
        "PointSize",
        "Ambient",
        "Diffuse",
        "Specular",
        "SetScalarBarVisibility",
        "SetRepresentationType",
        "RescaleTransferFunctionToDataRange",
    },
    "TextSourceRepresentation": {"WindowLocation", "Position", "FontSize", "Color", "Bold", "Italic"},
    "Slice": {"SliceType", "SliceOffsetValues", "Triangulatetheslice", "Crinkleslice", "HyperTreeGridSlicer"},
    "Plane": {"Origin", "Normal", "Offset"},
    "Tube": {"Scalars", "Vectors", "NumberofSides", "Capping", "Radius", "VaryRadius", "RadiusFactor"},
    "Text": {"Text"},
    "VTKHDFReader": {"FileName", "PointArrayStatus", "CellArrayStatus"},
    "XMLPolyDataReader": {"FileName", "PointArrayStatus", "CellArrayStatus", "TimeArray"},
    "PVLookupTable": {
        "AutomaticRescaleRangeMode",
        "RGBPoints",
        "ColorSpace",
        "ScalarRangeInitialized",
        "NanColor",
        "VectorMode",
        "VectorComponent",
        "UseLogScale",
        "ApplyPreset",
        "RescaleTransferFunction",
    },
    "ScalarBarWidgetRepresentation": {
        "Title",
        "ComponentTitle",
        "TitleFontSize",
        "LabelFontSize",
        "WindowLocation",
        "Position",
        "Orientation",
        "ScalarBarLength",
        "ScalarBarThickness",
        "TitleColor",
        "LabelColor",
    },
    "ViewLayout": {"SplitHorizontal", "SplitVertical", "AssignView", "SetSize", "SetSplitFraction"},
    "AnimationScene": {
        "UpdateAnimationUsingDataTimeSteps",
        "GoToLast",
        "GoToFirst",
        "GoToNext",
        "AnimationTime",
        "PlayMode",
        "StartTime",
        "EndTime",
        "NumberOfFrames",
        "TimeKeeper",
    },
}
"""Properties and methods by kind of proxy."""

NEWER = {f"OrientationAxes{axis}LabelText" for axis in "XYZ"}
"""Properties of the view that some versions have."""

METHODS = {
    "SetScalarBarVisibility",
    "SetRepresentationType",
    "RescaleTransferFunctionToDataRange",
    "ApplyPreset",
    "RescaleTransferFunction",
    "SplitHorizontal",
    "SplitVertical",
    "AssignView",
    "SetSize",
    "SetSplitFraction",
    "UpdateAnimationUsingDataTimeSteps",
    "GoToLast",
    "GoToFirst",
    "GoToNext",
}

CHOICES = {
    "Representation": {"Surface", "Surface With Edges", "Wireframe", "Points", "Outline", "Point Gaussian"},
    "AutomaticRescaleRangeMode": {
        "Never",
        "Grow and update on 'Apply'",
        "Grow and update every timestep",
        "Update on 'Apply'",
        "Clamp and update every timestep",
    },
    "ColorSpace": {"RGB", "HSV", "Lab", "CIEDE2000", "Lab/CIEDE2000", "Diverging", "Step"},
    "WindowLocation": {
        "Any Location",
        "Lower Left Corner",
        "Lower Right Corner",
        "Lower Center",
        "Upper Left Corner",
        "Upper Right Corner",
        "Upper Center",
    },
}
"""Values of properties that are chosen from a list."""


class Proxy:
    """Anything that a function hands back: knows its kind's properties, and keeps what is set and called."""

    def __init__(self, record: "Record", kind: str, **values: Any) -> None:
        vars(self).update(record=record, kind=kind, values={}, calls=[])
        for name, value in values.items():
            setattr(self, name, value)

    def _require(self, name: str) -> None:
        known = PROPERTIES[self.kind] | (self.record.newer if self.kind == "RenderView" else set())
        if name not in known:
            raise AttributeError(f"{self.kind} has no property {name}")

    def __getattr__(self, name: str) -> Any:
        self._require(name)
        if name in METHODS:
            return lambda *given: self.calls.append((name, given))
        return self.values.get(name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._require(name)
        if name in CHOICES and value not in CHOICES[name]:
            raise ValueError(f"{name} = {value!r}")
        self.values[name] = value

    def called(self, name: str) -> list[tuple]:
        """Arguments of the calls of a method."""
        return [given for method, given in self.calls if method == name]


class Record:
    """What a script did.

    Attributes
    ----------
    shown : (source, view, representation) in order.
    """

    def __init__(self, newer: bool = True) -> None:
        self.newer = NEWER if newer else set()
        self.views: list[Proxy] = []
        self.sources: list[Proxy] = []
        self.layouts: list[Proxy] = []
        self.shown: list[tuple[Proxy, Proxy, Proxy]] = []
        self.colours: dict[str, Proxy] = {}
        self.bars: dict[tuple[int, int], Proxy] = {}
        self.links: list[tuple[Proxy, Proxy]] = []
        self.animation = Proxy(self, "AnimationScene")

    def modules(self) -> dict[str, ModuleType]:
        """`paraview` and `paraview.simple`, to stand in `sys.modules`."""
        package, simple = ModuleType("paraview"), ModuleType("paraview.simple")
        for name in (
            "CreateView",
            "Show",
            "ColorBy",
            "GetColorTransferFunction",
            "GetScalarBar",
            "CreateLayout",
            "AddCameraLink",
            "GetAnimationScene",
            "SetActiveView",
            "RenderAllViews",
            "LoadPalette",
            "_DisableFirstRenderCameraReset",
            "VTKHDFReader",
            "XMLPolyDataReader",
            "Slice",
            "Tube",
            "Text",
        ):
            setattr(simple, name, getattr(self, name))
        package.simple = simple
        return {"paraview": package, "paraview.simple": simple}

    def _source(self, kind: str, data: Any, **values: Any) -> Proxy:
        proxy = Proxy(self, kind, **values)
        vars(proxy)["data"] = data
        self.sources.append(proxy)
        return proxy

    def CreateView(self, name: str) -> Proxy:  # noqa: N802
        assert name == "RenderView"
        self.views.append(Proxy(self, "RenderView"))
        return self.views[-1]

    def _opened(self, kind: str, reader: Any, files: list[str]) -> Proxy:
        (file,) = files
        assert reader.CanReadFile(file), f"{file}: VTK's reader does not take it"
        reader.SetFileName(file)
        reader.Update()
        return self._source(kind, reader.GetOutput(), FileName=files)

    def VTKHDFReader(self, registrationName: str, FileName: list[str]) -> Proxy:  # noqa: N802, N803
        return self._opened("VTKHDFReader", vtkHDFReader(), FileName)

    def XMLPolyDataReader(self, registrationName: str, FileName: list[str]) -> Proxy:  # noqa: N802, N803
        return self._opened("XMLPolyDataReader", vtkXMLPolyDataReader(), FileName)

    def Slice(self, registrationName: str, Input: Proxy) -> Proxy:  # noqa: N802, N803
        return self._source("Slice", vars(Input)["data"], SliceType=Proxy(self, "Plane"))

    def Tube(self, registrationName: str, Input: Proxy) -> Proxy:  # noqa: N802, N803
        assert vars(Input)["data"].GetNumberOfLines()
        return self._source("Tube", vars(Input)["data"])

    def Text(self, registrationName: str, Text: str) -> Proxy:  # noqa: N802, N803
        return self._source("Text", None, Text=Text)

    def Show(self, source: Proxy, view: Proxy) -> Proxy:  # noqa: N802
        assert source in self.sources
        assert view in self.views
        display = Proxy(self, "TextSourceRepresentation" if source.kind == "Text" else "Representation")
        vars(display)["data"] = vars(source)["data"]
        self.shown.append((source, view, display))
        return display

    def ColorBy(self, display: Proxy, array: tuple[str, ...] | None) -> None:  # noqa: N802
        if array:
            points = vars(display)["data"].GetPointData()
            assert array[0] == "POINTS"
            assert points.HasArray(array[1]), f"no array {array[1]}"
            assert (points.GetArray(array[1]).GetNumberOfComponents() > 1) == (array[2:] == ("Magnitude",))
        display.ColorArrayName = array

    def GetColorTransferFunction(self, name: str) -> Proxy:  # noqa: N802
        return self.colours.setdefault(name, Proxy(self, "PVLookupTable"))

    def GetScalarBar(self, colours: Proxy, view: Proxy) -> Proxy:  # noqa: N802
        assert colours in self.colours.values()
        return self.bars.setdefault((id(colours), id(view)), Proxy(self, "ScalarBarWidgetRepresentation"))

    def CreateLayout(self, name: str) -> Proxy:  # noqa: N802
        self.layouts.append(Proxy(self, "ViewLayout"))
        return self.layouts[-1]

    def AddCameraLink(self, view: Proxy, other: Proxy, name: str) -> None:  # noqa: N802
        self.links.append((view, other))

    def GetAnimationScene(self) -> Proxy:  # noqa: N802
        return self.animation

    def SetActiveView(self, view: Proxy) -> None:  # noqa: N802
        assert view in self.views

    def RenderAllViews(self) -> None:  # noqa: N802
        assert self.views

    def LoadPalette(self, paletteName: str) -> None:  # noqa: N802, N803
        assert paletteName == "WhiteBackground"

    def _DisableFirstRenderCameraReset(self) -> None:  # noqa: N802
        pass


def run(script: Path, newer: bool = True, with_file: bool = True) -> Record:
    """What a script does; `with_file`: whether it is told its own place, as ParaView does."""
    import sys

    record = Record(newer)
    kept = {name: sys.modules.get(name) for name in record.modules()}
    sys.modules.update(record.modules())
    try:
        code = compile(script.read_text(encoding="utf-8"), str(script), "exec")
        exec(code, {"__name__": "__main__"} | ({"__file__": str(script)} if with_file else {}))
    finally:
        for name, module in kept.items():
            sys.modules.pop(name)
            if module:
                sys.modules[name] = module
    return record

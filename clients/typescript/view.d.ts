import type { Patch, View } from "./types.js";

/** A view without anything in it. */
export function emptyView(): View;

/** Makes the change that a patch says, in the view itself. */
export function applyPatch(view: View, patch: Patch): View;

// What is shown, and what the pointer and the keyboard act on.

// What is shown: an image or a plate, and the pane beside the slices of an image.
export let view = null;
export let plate = null;
export let fourth = null;

export function setShown(image, all = null, beside = null) { [view, plate, fourth] = [image, all, beside]; }

export const input = { focused: 0, lining: false }; // the number of a panel; whether dragging draws a line
export const actions = { open: null }; // shows what is at a path

// The view whose channels are shown: of a plate that of its first field.
export function current() { return view || (plate && plate.lead); }

// The view whose labels can be picked: the image itself, or the first labels above it.
export function labelled() { return view && (view.image.labels ? view : view.overlays[0]); }

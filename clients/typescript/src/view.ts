import type { Block, Patch, View } from "./types.ts";

/** A view without anything in it. */
export function emptyView(): View {
  const status = { activity: { doing: "idle" }, activity_ms: 0 } as View["status"];
  return { switches: 0, blocks: [], cards: [], queue: [], status, agents: [], jobs: [], checklist: [] };
}

/** Characters of a running call's output that are kept, about. */
const MAX_PROGRESS_CHARS = 64 * 1024;

function grown(block: Block, delta: string): Block {
  const content = { ...block.content };
  if (content.type === "answer" || content.type === "thinking") content.text += delta;
  else if (content.type === "call") content.progress = ((content.progress ?? "") + delta).slice(-MAX_PROGRESS_CHARS);
  return { ...block, content };
}

/** Makes the change that a patch says, in the view itself. */
export function applyPatch(view: View, patch: Patch): View {
  const place = (id: string) => view.blocks.findLastIndex((block) => block.id === id);
  switch (patch.patch) {
    case "reset": return Object.assign(view, emptyView(), structuredClone(patch.view));
    case "open": view.blocks.push(patch.block); break;
    case "change": case "close": {
      const at = place(patch.block.id);
      view.blocks[at < 0 ? view.blocks.length : at] = patch.block;
      break;
    }
    case "grow": {
      const at = place(patch.id);
      const block = view.blocks[at];
      if (block) view.blocks[at] = grown(block, patch.delta);
      break;
    }
    case "remove": view.blocks = view.blocks.filter(({ id }) => id !== patch.id); break;
    case "ask": view.cards.push(patch.card); break;
    case "answered": view.cards = view.cards.filter(({ id }) => id !== patch.id); break;
    case "queue": view.queue = patch.queued; break;
    case "status": view.status = patch.status; break;
    case "agents": view.agents = patch.agents; break;
    case "jobs": view.jobs = patch.jobs; break;
    case "checklist": view.checklist = patch.items; break;
  }
  return view;
}

/** The language of paths, and JSON texts that paths lead into. */
export type { Steps } from '#client/path';
export {
  countParts,
  eachMember,
  eachName,
  hasItems,
  INCOMPLETE,
  isName,
  type JsonType,
  JsonWalk,
  skipSpace,
  valueEnd,
} from './json-text.ts';
export { distance, listed, MAX_WRONG, nearest, shownField, suggested } from './near.ts';
export { type Path, PathStep as Step, pathText } from './step.ts';
export {
  addPath,
  newTree,
  PathError,
  type PathNode,
  parsePaths,
  stepsOf,
  valueNodes,
} from './tree.ts';

import type { Client } from '../client-settings.ts';
import { DEFAULT_SPACE } from '../types.ts';
import type { PolicyRules } from './rules.ts';

/** How a caller sees the vault: by a policy, and in a space. */
export class Viewer {
  readonly rules: PolicyRules;
  /** The line of the client in the rights of the policy; null: it sees everything. */
  readonly entry: string | null;
  /** '': the default space. */
  readonly space: string;

  constructor(rules: PolicyRules, line: string | null, space: string) {
    this.rules = rules;
    this.entry = line;
    this.space = space;
  }

  static of(rules: PolicyRules, client: Client): Viewer {
    return new Viewer(rules, rules.entryOf(client), client.space);
  }

  /** Whether there is one kind, one space and one right. */
  get isPlain(): boolean {
    return this.rules.tag === undefined && this.space === DEFAULT_SPACE;
  }

  get seesAll(): boolean {
    return this.rules.seesAll(this.entry);
  }
}

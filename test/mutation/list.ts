import { CALLERS } from './callers.ts';
import { CRYPTO } from './crypto.ts';
import type { Mutant } from './mutant.ts';
import { VAULT } from './vault.ts';

export const MUTANTS: readonly Mutant[] = [...VAULT, ...CRYPTO, ...CALLERS];

import { describe } from 'vitest';
import { testRetention } from '../support/retention-cases.ts';
import { kinds } from '../support/service.ts';

describe.each(kinds())('records that end, on %s', testRetention);

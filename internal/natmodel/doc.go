// Package natmodel implements the parts of NAT's data models that concern steps: the recorded steps NAT accepts and the
// values it coerces (its IntermediateStep and TTCEventData, which are pydantic models in lax mode).
//
// Both readers of NAT's files use it, so a step is judged the same way whether NAT's own algorithm or ours builds pairs
// from it. Its rules were measured against pydantic 2.13; the table is in the tests.
package natmodel

// Package natmodel implements the parts of NAT's data models that concern steps: which recorded steps NAT accepts,
// and how it coerces values (its IntermediateStep and TTCEventData, which are pydantic models in lax mode).
//
// Both readers of NAT's files use it, so that a step is accepted or rejected regardless of whether NAT's algorithm or
// nat-go's builds pairs from it. Its rules were verified against pydantic 2.13; the table is in the tests.
package natmodel

// Package natmodel implements the parts of NAT's data models that concern steps: which recorded steps NAT accepts,
// and how it coerces values (its IntermediateStep and TTCEventData, which are pydantic models in lax mode).
//
// Both readers of NAT's files use it, so that they accept the same steps, whether NAT's algorithm or nat-go's builds
// the pairs. Its rules were verified against pydantic 2.13; the table is in the tests.
package natmodel

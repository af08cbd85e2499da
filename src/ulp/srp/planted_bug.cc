#include "ulp/srp/planted_bug.h"

#ifdef WEFT_PLANTED_BUGS
namespace weft::srp {
constinit thread_local PlantedBug planted_bug = PlantedBug::None;
}
#endif

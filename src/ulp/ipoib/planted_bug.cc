#include "ulp/ipoib/planted_bug.h"

#ifdef WEFT_PLANTED_BUGS
namespace weft::ipoib {
constinit thread_local PlantedBug planted_bug = PlantedBug::None;
}
#endif

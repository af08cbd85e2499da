#include "hca/planted_bug.h"

#ifdef WEFT_PLANTED_BUGS
namespace weft::hca {
constinit thread_local PlantedBug planted_bug = PlantedBug::None;
}
#endif

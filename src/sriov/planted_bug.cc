#include "sriov/planted_bug.h"

#ifdef WEFT_PLANTED_BUGS
namespace weft::sriov {
constinit thread_local PlantedBug planted_bug = PlantedBug::None;
}
#endif

#include "iwpm/planted_bug.h"

#ifdef WEFT_PLANTED_BUGS
namespace weft::iwpm {
constinit thread_local PlantedBug planted_bug = PlantedBug::None;
}
#endif

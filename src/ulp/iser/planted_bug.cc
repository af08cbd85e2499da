#include "ulp/iser/planted_bug.h"

#ifdef WEFT_PLANTED_BUGS
namespace weft::iser {

constinit thread_local PlantedBug planted_bug = PlantedBug::None;

}  // namespace weft::iser
#endif

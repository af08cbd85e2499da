#include "ulp/opa_vnic/planted_bug.h"

#ifdef WEFT_PLANTED_BUGS
namespace weft::opa_vnic {
constinit thread_local PlantedBug planted_bug = PlantedBug::None;
}
#endif

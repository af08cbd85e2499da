#include "iscsi/planted_bug.h"

#ifdef WEFT_PLANTED_BUGS
namespace weft::iscsi {

constinit thread_local PlantedBug planted_bug = PlantedBug::None;

}  // namespace weft::iscsi
#endif

-- Records of more than 2 kB stay in their row as they are: to compress them, at every change,
-- costs more than to write them.
alter table records set (toast_tuple_target = 8160);
